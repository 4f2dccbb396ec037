"""Markers of harmony, each a special token of its own.

An answer is a series of messages: <|channel|>analysis<|message|>thoughts<|end|>, then <|start|>assistant and the next
one. The channel `final` holds the answer, `commentary` what the model says before it calls, and with a recipient,
to=functions.NAME, the arguments of a call.
"""

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
ENDS = (END, CALL, RETURN, START, CHANNEL)
"""Markers that end the text of a message. The last two begin another one, where a model forgot the end."""
ALL = (START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN)
ANALYSIS, COMMENTARY, FINAL = (f"{CHANNEL}{name}" for name in ("analysis", "commentary", "final"))
FUNCTIONS = "functions."
NEXT = f"{END}{START}assistant"
HARMONY = "harmony"
"""Name of the format in `AnswerFormat` of the protocol."""
