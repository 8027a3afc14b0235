package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local file system without a process for each file: where its native library is missing, Hadoop runs chmod for what
 * it creates and readlink for what it renames, tens of times a second in these tests.
 */
public class DirectFs extends LocalFileSystem {
    public DirectFs() {
        super(new Raw());
    }

    public static void install(Configuration conf) throws IOException {
        DirectFs made = new DirectFs();
        made.initialize(URI.create("file:///"), conf);
        FileSystem.addFileSystemForTesting(URI.create("file:///"), conf, made);
        conf.set("fs.file.impl", "org.apache.hadoop.fs.DirectFs");
        conf.set("fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.DirectContext");
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path p, FsPermission permission) {
        }

        public FileStatus getFileLinkStatus(Path f) throws IOException {
            boolean link = Files.isSymbolicLink(pathToFile(f).toPath());
            return link ? super.getFileLinkStatus(f) : getFileStatus(f);
        }
    }
}
