package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;

/** DirectFs as FileContext asks for it: Delta writes its log through one. */
public class DirectContext extends DelegateToFileSystem {
    public DirectContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
        super(URI.create("file:///"), new DirectFs(), conf, "file", false);
    }
}
