"""`mom rule`: the rules, and who may do what by them."""

from broker_app.cli import resource_types, resources, rule_check

app = resources.commands(resource_types.RULES)
app.command("test")(rule_check.try_out)
app.command()(rule_check.explain)
app.command()(rule_check.denials)
