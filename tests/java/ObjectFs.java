package org.apache.hadoop.fs;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A local folder that behaves as an object store does: an object appears as a whole when its stream is closed, in the
 * place of one that has come there since the stream was opened. Any scheme and bucket mean the path alone, below the
 * folder that the conf fs.object.folder names.
 *
 * armed for a name: both drivers that write it meet once both have seen that it is not there; the one of the scheme
 * "last" puts after the other.
 */
public class ObjectFs extends FileSystem {
    private static String name = null;
    private static String last = "";
    private static CyclicBarrier both = null;
    private static CountDownLatch first = null;

    private final RawLocalFileSystem disk = new RawLocalFileSystem();
    private URI uri;
    private String folder = "";

    public static synchronized void arm(String fileName, String lastScheme) {
        name = fileName;
        last = lastScheme;
        both = new CyclicBarrier(2);
        first = new CountDownLatch(1);
    }

    public static synchronized void disarm() {
        name = null;
    }

    public void initialize(URI place, Configuration conf) throws IOException {
        super.initialize(place, conf);
        disk.initialize(URI.create("file:///"), conf);
        uri = URI.create(place.getScheme() + "://" + place.getAuthority());
        folder = conf.get("fs.object.folder", "");
        setConf(conf);
    }

    public URI getUri() {
        return uri;
    }

    public String getScheme() {
        return uri.getScheme();
    }

    private Path local(Path path) {
        return new Path("file", "", folder + path.toUri().getPath());
    }

    private FileStatus here(FileStatus status) {
        Path path = new Path(uri.getScheme(), uri.getAuthority(), status.getPath().toUri().getPath().substring(folder.length()));
        return new FileStatus(status.getLen(), status.isDirectory(), 1, 1 << 27, status.getModificationTime(), path);
    }

    private void put(Path path, byte[] bytes) throws IOException {
        FSDataOutputStream out = disk.create(local(path), true);
        try {
            out.write(bytes);
        } finally {
            out.close();
        }
    }

    private void meetAndPut(Path path, byte[] bytes) throws IOException {
        if (!path.getName().equals(name)) {
            put(path, bytes);
            return;
        }
        try {
            both.await(120, TimeUnit.SECONDS);
            if (uri.getScheme().equals(last)) first.await(120, TimeUnit.SECONDS);
            put(path, bytes);
            first.countDown();
        } catch (Exception error) {
            throw new IOException("the other driver did not come: " + error);
        }
    }

    public FSDataOutputStream create(final Path path, FsPermission permission, boolean overwrite, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        if (!overwrite && disk.exists(local(path))) throw new FileAlreadyExistsException(path.toString());
        return new FSDataOutputStream(new Put(this, path), null);
    }

    /** What is written until it is closed. */
    private static class Put extends ByteArrayOutputStream {
        private final ObjectFs store;
        private final Path path;
        private boolean closed = false;

        Put(ObjectFs store, Path path) {
            this.store = store;
            this.path = path;
        }

        public void close() throws IOException {
            if (closed) return;
            closed = true;
            store.meetAndPut(path, toByteArray());
        }
    }

    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return disk.open(local(path), bufferSize);
    }

    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
        throw new UnsupportedOperationException("an object cannot be appended to");
    }

    public boolean rename(Path from, Path to) throws IOException {
        return disk.rename(local(from), local(to));
    }

    public boolean delete(Path path, boolean recursive) throws IOException {
        return disk.delete(local(path), recursive);
    }

    public FileStatus[] listStatus(Path path) throws FileNotFoundException, IOException {
        FileStatus[] found = disk.listStatus(local(path));
        for (int i = 0; i < found.length; i++) found[i] = here(found[i]);
        return found;
    }

    public void setWorkingDirectory(Path path) {}

    public Path getWorkingDirectory() {
        return new Path(uri.getScheme(), uri.getAuthority(), "/");
    }

    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        return disk.mkdirs(local(path));
    }

    public FileStatus getFileStatus(Path path) throws IOException {
        return here(disk.getFileStatus(local(path)));
    }
}
