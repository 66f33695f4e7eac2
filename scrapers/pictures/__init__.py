"""Pictures are downloaded by an asyncio client, outside Scrapy's engine."""
