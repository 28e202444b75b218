import os
from typing import Dict, Optional


class EnvField:
    def __init__(self, default):
        self.default = default


class EnvBool(EnvField):
    pass


class EnvInt(EnvField):
    pass


class Envs:
    SGLANG_ENABLE_SPEC = EnvBool(False)
    SGLANG_LOG_LEVEL_STEP = EnvInt(10)


class _DeprecatedEnv:
    def __init__(self, replacement: Optional[str] = None, note: Optional[str] = None):
        self.replacement = replacement
        self.note = note


_DEPRECATED_ENVS: Dict[str, _DeprecatedEnv] = {
    "SGLANG_SPEC_ON": _DeprecatedEnv(replacement="SGLANG_ENABLE_SPEC"),
    "SGLANG_OLD_SPEC": _DeprecatedEnv(note="The old path is gone; the setting has no effect."),
}


def warmup_requested() -> bool:
    return os.getenv("SGLANG_WARMUP_LIST") is not None
