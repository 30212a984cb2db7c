"""Algorithm 1: settings, the fit of a layer and of an encoder, and what listens to it."""
