"""The folders of the VoicePrivacy challenges as users have them: what they hold, what is evaluated, and what should be there."""
