import re
from dataclasses import dataclass


@dataclass
class Conversation:
    name: str
    system_message: str = ""


chat_templates = {}
matching_functions = []


def register_conv_template(template):
    chat_templates[template.name] = template


def register_conv_template_matching_function(function):
    matching_functions.append(function)
    return function


register_conv_template(Conversation(name="llama-2"))
register_conv_template(Conversation(name="chatml", system_message="You are a helpful assistant."))
register_conv_template(Conversation(name="points-v15-chat"))
register_conv_template(Conversation(name="unlimited-ocr"))


@register_conv_template_matching_function
def match_points(model_path: str):
    if re.search(r"\bpoints\b", model_path, re.IGNORECASE):
        return "points-v15-chat"
    return None


@register_conv_template_matching_function
def match_unlimited_ocr(model_path: str):
    if "unlimited" in model_path.lower():
        return "unlimited-ocr"
    return None
