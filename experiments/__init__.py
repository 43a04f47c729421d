"""The paper's experiments, one folder each: ``paroli reproduce --list``."""
