"""Facts: typed, frozen, parsed from evidence. A field that could not be read is `Unknown(reason)`."""
