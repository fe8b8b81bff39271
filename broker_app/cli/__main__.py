"""`python -m broker_app.cli` is `mom`."""

from broker_app.cli.main import main

main()
