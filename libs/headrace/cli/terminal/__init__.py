"""Terminal output of commands: answers, load, examples."""
