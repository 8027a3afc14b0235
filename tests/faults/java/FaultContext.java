package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;

/** FaultFs for FileContext, through which Delta writes its log. */
public class FaultContext extends DelegateToFileSystem {
    public FaultContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
        super(URI.create("file:///"), new FaultFs(), conf, "file", false);
    }
}
