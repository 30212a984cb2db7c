"""The paper's tables of cost as data: TOML files with the published figures and their source."""
