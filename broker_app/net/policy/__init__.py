"""Authorization: the policy in memory, the checks against it, and what they decided."""
