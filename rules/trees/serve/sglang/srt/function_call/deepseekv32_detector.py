from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class DeepSeekV32Detector(BaseFormatDetector):
    """Detector for DeepSeek V3.2 models."""

    block_name = "function_calls"

    def __init__(self):
        super().__init__()
        bar = "｜DSML｜"
        self.bot_token = f"<{bar}{self.block_name}>"
        self.eot_token = f"</{bar}{self.block_name}>"
