"""Trains the small recogniser (`ocr/models/small_recogniser.onnx`): text, drawn lines, network, training."""
