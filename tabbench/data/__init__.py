"""Data: references to tables, the cache, splits, preprocessing and the sealed test part."""
