package acme;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;

/** A log store that is not one of Delta's: only its user knows how it commits. */
public class AcmeStore extends S3SingleDriverLogStore {
    public AcmeStore(Configuration conf) {
        super(conf);
    }
}
