"""Files written whole or not at all, and what is said of them: records of what a product was made
from, finished batches of an unfinished job, errors a user can act on, and the log. Takes tables,
tensors and settings; gives files, records and messages. Knows nothing of the science."""
