"""Generated speech: a corpus in several languages, spoken by eSpeak NG, from a seed."""
