"""Messages through RabbitMQ: published with confirms, kept in a quorum queue, handed to a Celery worker's processes."""
