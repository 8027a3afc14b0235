package stores;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;

/** A log store of an operator's own: S3 itself refuses a commit file that exists (a put with If-None-Match). */
public class ConditionalStore extends S3SingleDriverLogStore {
    public ConditionalStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        FSDataOutputStreamBuilder builder = path.getFileSystem(conf).createFile(path);
        builder.overwrite(false);
        builder.must("fs.option.create.conditional.overwrite", "true");
        try {
            FSDataOutputStream out = (FSDataOutputStream) builder.build();
            while (actions.hasNext()) {
                out.write((((String) actions.next()) + "\n").getBytes(StandardCharsets.UTF_8));
            }
            out.close();
        } catch (IOException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains("412") || cause instanceof org.apache.hadoop.fs.FileAlreadyExistsException) {
                    throw new FileAlreadyExistsException(path.toString());
                }
            }
            throw error;
        }
    }
}
