"""The steps of the workflow and the nouns they share, importable without Snakemake."""
