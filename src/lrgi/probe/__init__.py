"""The only room that reads labels: the linear probe, scores, smoothing; and label-free rank."""
