"""`mom rule`: the rules, and who may do what by them."""

from broker_app.cli import judging, kinds, things

app = things.commands(kinds.RULES)
app.command("test")(judging.try_out)
app.command()(judging.explain)
app.command()(judging.denials)
