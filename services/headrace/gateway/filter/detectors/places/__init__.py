"""Places of long texts at which a finding may begin, computed for many characters at once."""
