import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Counts calls of one tool that come within five minutes after another, in each session of a file of JSON lines. */
public final class SequenceJob {

    /** What the pattern needs of an event; Jackson skips the rest. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public static final class Step {
        @JsonProperty("session_id")
        public String session;
        public String kind = "";
        public String tool = "";
        public double time;
    }

    /** Reads an event of its line. */
    public static final class Read extends RichMapFunction<String, Step> {
        private transient ObjectReader reader;

        @Override
        public void open(OpenContext context) {
            reader = new ObjectMapper().readerFor(Step.class);
        }

        @Override
        public Step map(String line) throws Exception {
            return reader.readValue(line);
        }
    }

    /** Names the session of a match. */
    public static final class Name extends PatternProcessFunction<Step, String> {
        @Override
        public void processMatch(Map<String, List<Step>> match, Context context, Collector<String> out) {
            out.collect(match.get("then").get(0).session);
        }
    }

    /** Does by hand what the pattern says, of events in order: the least that Flink can do for it. */
    public static final class ByHand extends KeyedProcessFunction<String, Step, String> {
        private final String first;
        private final String then;
        private transient ValueState<Double> seen;

        ByHand(String first, String then) {
            this.first = first;
            this.then = then;
        }

        @Override
        public void open(OpenContext context) {
            seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Double.class));
        }

        @Override
        public void processElement(Step step, Context context, Collector<String> out) throws Exception {
            if (!step.kind.equals("tool_call")) {
                return;
            }
            if (step.tool.equals(first)) {
                seen.update(step.time);
            } else if (step.tool.equals(then)) {
                Double before = seen.value();
                if (before != null && step.time - before < 300) {
                    out.collect(step.session);
                }
            }
        }
    }

    /** Counts matches, which costs less than to write them. */
    public static final class Count extends RichMapFunction<String, String> {
        private final LongCounter found = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("found", found);
        }

        @Override
        public String map(String session) {
            found.add(1);
            return session;
        }
    }

    private static SimpleCondition<Step> calls(String tool) {
        return SimpleCondition.of(step -> step.kind.equals("tool_call") && step.tool.equals(tool));
    }

    private static DataStream<String> matches(DataStream<Step> steps, String first, String then) {
        WatermarkStrategy<Step> times =
                WatermarkStrategy.<Step>forMonotonousTimestamps()
                        .withTimestampAssigner((step, before) -> (long) (step.time * 1000));
        Pattern<Step, ?> pattern =
                Pattern.<Step>begin("first")
                        .where(calls(first))
                        .followedBy("then")
                        .where(calls(then))
                        .within(Duration.ofMinutes(5));
        DataStream<Step> timed = steps.assignTimestampsAndWatermarks(times).keyBy(step -> step.session);
        return CEP.pattern(timed, pattern).process(new Name());
    }

    private static DataStream<String> byHand(DataStream<Step> steps, String first, String then) {
        return steps.keyBy(step -> step.session).process(new ByHand(first, then));
    }

    /** Arguments: the first tool, the tool that must not follow it, "cep" or "by hand", and the file. */
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        environment.getConfig().enableObjectReuse(); // its quicker way: no copy between operators
        FileSource<String> file =
                FileSource.forRecordStreamFormat(new TextLineInputFormat(), new Path(arguments[3])).build();
        DataStream<Step> steps =
                environment.fromSource(file, WatermarkStrategy.noWatermarks(), "lines").map(new Read());
        DataStream<String> found =
                arguments[2].equals("cep")
                        ? matches(steps, arguments[0], arguments[1])
                        : byHand(steps, arguments[0], arguments[1]);
        found.map(new Count()).sinkTo(new DiscardingSink<>());
        Long count = environment.execute().getAccumulatorResult("found");
        System.out.println(count);
    }
}
