"""What is known of many requests together; it stands above the exporters' payload and below the pipeline."""
