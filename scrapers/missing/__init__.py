"""Pictures that the catalog knows by address only are downloaded: `memeloom fetch`."""
