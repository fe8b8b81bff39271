"""The features of a node: `feature` is what each declares, `features` their list."""
