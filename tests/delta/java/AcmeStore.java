package acme;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;

/** A log store that is not one of Delta's; what it does is for whoever configured it to know. */
public class AcmeStore extends S3SingleDriverLogStore {
    public AcmeStore(Configuration conf) {
        super(conf);
    }
}
