// A client of `evalkit serve`, typed from its /openapi.json; answers are parsed by the schema of the tool.
import createClient from "openapi-fetch";
import { z } from "zod";
import type { paths } from "./judge";

declare const process: { argv: string[] };

const schema = z.object({
  success: z.boolean(),
  scores: z.array(
    z.object({
      criterion: z.string(),
      score: z.number(),
      maxScore: z.number(),
      justification: z.string(),
      examples: z.array(z.any()),
    }),
  ),
  overallScore: z.number(),
  weightedScore: z.number(),
  summary: z.object({
    strengths: z.array(z.string()),
    weaknesses: z.array(z.string()),
    suggestions: z.array(z.string()),
  }),
  metadata: z.object({ evaluationTimeMs: z.number(), criteriaCount: z.number(), rubricScale: z.string() }),
});

const [url, prompt, good] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });
const { data, error } = await client.POST("/direct_score", {
  body: { prompt, response: good, criteria: [{ name: "accuracy", description: "It is right.", weight: 1 }] },
});
if (error) throw new Error(JSON.stringify(error));
console.log(JSON.stringify(schema.parse(data)));
