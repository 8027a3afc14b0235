"""Find rows of Parquet files by position and value without Spark, reading only the row groups that can contain them."""
