"""Where a text states its anchors: the exact question tokens (E_Q), the exact answer tokens (E_A),
and whether an answer is right. Takes the texts of questions and answers; gives character spans,
tokens and labels. Needs no model."""
