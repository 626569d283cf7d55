"""What a user may set: every key of `config.yaml` with its type, default and meaning. Takes YAML;
gives a checked, frozen `Config`, the JSON schema and the reference page."""
