"""The corpus as traffic sees it: chunks that serve bad answers, are never used, contradict others, are old."""
