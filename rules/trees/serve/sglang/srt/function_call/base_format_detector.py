class BaseFormatDetector:
    def __init__(self):
        self.bot_token = ""
        self.eot_token = ""
