"""Places in the code where tests make something fail. Off unless a setting names a folder."""

from headrace.failpoints.failpoint import arm, damage, fate, hit, pause

__all__ = ["arm", "damage", "fate", "hit", "pause"]
