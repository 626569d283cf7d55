"""What hidden states say of the label, out of fold: the batched solver, calibration of p, scores,
text floors, and the bootstrap that all later numbers share. Takes features `float32 [layers,
samples, width]` and labels; gives scores, draws and intervals."""
