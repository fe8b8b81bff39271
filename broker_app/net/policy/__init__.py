"""Authorization: the policy in memory, the checks against it, and recent decisions."""
