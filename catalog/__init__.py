"""The catalog: memes and templates in a document store, their pictures in a blob store."""
