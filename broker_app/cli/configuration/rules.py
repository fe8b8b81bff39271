"""`mom rule`: authorization rules, and the permissions that follow from them."""

from broker_app.cli.configuration import resource_types, resources, rule_check

app = resources.commands(resource_types.RULES)
app.command("test")(rule_check.check)
app.command()(rule_check.explain)
app.command()(rule_check.denials)
