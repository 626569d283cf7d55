"""All keys of `config.yaml` with their types, defaults and meanings.

Takes YAML. Gives a checked, frozen `Config`, the JSON schema and the reference page.
"""
