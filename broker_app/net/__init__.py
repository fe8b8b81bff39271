"""The network side of the broker: from bytes to commands and back.

Owns sessions, authentication, authorization, flow control and rendering. STOMP transports share
`StompSession`; REST submits the same commands. It does not decide about messages (the core does) and does not
know Django.
"""
