from typing import Dict, Optional, Type


class BaseReasoningFormatDetector:
    def __init__(
        self,
        think_start_token: str,
        think_end_token: str,
        force_reasoning: bool = False,
        tool_start_token: Optional[str] = None,
        reasoning_default: str = "always",
    ):
        self.think_start_token = think_start_token
        self.think_end_token = think_end_token
        self.force_reasoning = force_reasoning
        self.tool_start_token = tool_start_token
        self.reasoning_default = reasoning_default


class DeepSeekR1Detector(BaseReasoningFormatDetector):
    """Detector for DeepSeek R1, which always thinks."""

    def __init__(self, force_reasoning: bool = True):
        super().__init__("<think>", "</think>", force_reasoning=True)


class Qwen3Detector(BaseReasoningFormatDetector):
    """Detector for Qwen3 models, which think unless told otherwise."""

    def __init__(self, force_reasoning: bool = False):
        super().__init__(
            "<think>",
            "</think>",
            force_reasoning=force_reasoning,
            tool_start_token="<tool_call>",
            reasoning_default="enable_thinking",
        )


class Glm45Detector(Qwen3Detector):
    """Detector for GLM-4.5 models."""


class KimiK2Detector(BaseReasoningFormatDetector):
    """Detector for Kimi K2 models."""

    def __init__(self, force_reasoning: bool = False):
        super().__init__(
            "<think>",
            "</think>",
            force_reasoning=force_reasoning,
            tool_start_token="<|tool_calls_section_begin|>",
            reasoning_default="thinking",
        )


class DeepSeekV3Detector(BaseReasoningFormatDetector):
    """Detector for DeepSeek V3.1 and later models."""

    def __init__(self, force_reasoning: bool = False):
        super().__init__(
            "<think>",
            "</think>",
            force_reasoning=force_reasoning,
            reasoning_default="explicit_thinking",
        )


class ReasoningParser:
    DetectorMap: Dict[str, Type[BaseReasoningFormatDetector]] = {
        "deepseek-r1": DeepSeekR1Detector,
        "deepseek-v3": DeepSeekV3Detector,
        "deepseek-v4": DeepSeekV3Detector,
        "glm45": Glm45Detector,
        "kimi_k2": KimiK2Detector,
        "qwen3": Qwen3Detector,
        "qwen3-thinking": Qwen3Detector,
    }

    def __init__(self, model_type: str, force_reasoning: Optional[bool] = None):
        detector_class = self.DetectorMap[model_type.lower()]
        if model_type.lower() in {"qwen3-thinking"}:
            force_reasoning = True
        self.detector = detector_class(force_reasoning=bool(force_reasoning))
