"""The roof's rooms: pages, control plane, and the way from models to the policy.

`actions` are the only writers of the models; `snapshot` turns them into what the node knows.
Never on the data path.
"""
