"""What a node does, feature by feature: `feature` is what each declares, `features` their list."""
