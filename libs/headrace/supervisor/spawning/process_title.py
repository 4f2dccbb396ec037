"""Title under which tools such as ps show a process."""

import os


def set_process_title(title: str) -> None:
    """Sets the title of this process, as far as there is room for it beside its environment, which stays readable."""
    os.environ["SPT_NOENV"] = "1"
    # Looks for its variable when it is imported.
    import setproctitle

    setproctitle.setproctitle(title)
