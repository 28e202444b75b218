class OpenAIServingChat:
    def __init__(self, tokenizer_manager):
        self.tokenizer_manager = tokenizer_manager
        self.tool_call_parser = tokenizer_manager.server_args.tool_call_parser
        self.chat_encoding_spec = self._resolve_chat_encoding_spec()

    def _resolve_chat_encoding_spec(self):
        if self.tool_call_parser == "deepseekv4":
            return "dsv4"
        if self.tool_call_parser == "deepseekv32":
            return "dsv32"

        architectures = self.tokenizer_manager.model_config.hf_config.architectures
        arch = architectures[0] if architectures else ""
        if "DeepseekV4" in arch:
            return "dsv4"
        has_chat_template = self.tokenizer_manager.tokenizer.chat_template is not None
        if "DeepseekV3" in arch and not has_chat_template:
            return "dsv32"
        return None
