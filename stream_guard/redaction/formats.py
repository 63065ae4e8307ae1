"""The published shapes of secrets, by vendor.

Prefixes, alphabets and lengths are facts that the vendors publish. They were collected from the vendors' pages and from
the rule data of gitleaks (MIT licence); the expressions are our own, for RE2.

A length is a lower bound: vendors make their tokens longer without notice. What stands before the body is matched
letter for letter, so that a row costs nothing where its prefix does not occur.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ALNUM: Final = "[A-Za-z0-9]"
_WORD: Final = "[A-Za-z0-9_-]"
_HEX: Final = "[0-9a-fA-F]"
_UPPER: Final = "[A-Z0-9]"
_LOWER: Final = "[a-z0-9]"
# The signs of base64 may be escaped for a URL or for JSON.
_BASE64: Final = r"(?:[A-Za-z0-9+/_-]|%2[BbFf]|\\/|\\u002[bBfF])"
# So may other signs.
_SLASH: Final = r"(?:/|%2[Ff]|\\/)"
_COLON: Final = "(?::|%3[Aa])"
_UUID: Final = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_MODE: Final = "(?:live|test|prod|sandbox|sbox)"


class SecretFormat(NamedTuple):
    """One shape: a prefix and a body, both RE2. Prose that begins like a secret is told apart by its body."""

    vendor: str
    prefix: str
    body: str
    anchor: str = ""  # a short expression that occurs wherever the shape does; the prefix where this is empty
    common: bool = False  # the prefix begins names and words too


def _shape(vendor: str, prefix: str, alphabet: str, least: int) -> SecretFormat:
    return SecretFormat(vendor, prefix, f"{alphabet}{{{least},}}", f"{prefix}{alphabet}{{4}}")


def _common(vendor: str, prefix: str, alphabet: str, least: int) -> SecretFormat:
    return _shape(vendor, prefix, alphabet, least)._replace(common=True)


MODELS: Final = (
    _shape("Anthropic", "sk-ant-", _WORD, 16),
    _common("OpenAI", "sk-", _WORD, 16),  # also DeepSeek, OpenRouter, Helicone, Langfuse and LiteLLM
    _common("OpenAI session", "sess-", _ALNUM, 30),
    _shape("Groq", "gsk_", _ALNUM, 20),
    _shape("xAI", "xai-", _ALNUM, 30),
    _shape("Hugging Face", "hf_", _ALNUM, 16),
    _shape("Hugging Face organisation", "api_org_", _ALNUM, 30),
    _shape("Replicate", "r8_", _ALNUM, 30),
    _shape("Perplexity", "pplx-", _ALNUM, 30),
    _shape("Together", "tgp_v1_", _WORD, 30),
    _common("Fireworks", "fw_", _ALNUM, 20),
    _shape("NVIDIA", "nvapi-", _WORD, 30),
    _shape("Cerebras", "csk-", _ALNUM, 30),
    SecretFormat("LangSmith", r"(?:lsv2_(?:pt|sk)_|ls__)", f"{_HEX}{{32}}(?:_{_HEX}{{10}})?"),
    SecretFormat("Pinecone", "pcsk_", f"{_ALNUM}{{4,}}_{_ALNUM}{{30,}}"),
    _shape("Tavily", "tvly-", _WORD, 20),
    _shape("ElevenLabs", "sk_", _HEX, 32),
    _shape("Jina", "jina_", _WORD, 30),
    _common("Voyage", "pa-", _WORD, 40),
    _shape("Firecrawl", "fc-", _HEX, 32),
    _shape("E2B", "e2b_", _HEX, 30),
    _shape("Modal", "a[ks]-", _ALNUM, 22),
    _shape("Weights & Biases", "wandb_v1_", _WORD, 30),
    _shape("PostHog", "ph[cx]_", _ALNUM, 30),
    _shape("Apify", "apify_api_", _ALNUM, 30),
    _shape("Browserbase", "bb_live_", _WORD, 20),
    SecretFormat("Zhipu", f"{_HEX}{{32}}\\.", f"{_ALNUM}{{16}}", r"[0-9a-f]{4}\.[A-Za-z0-9]{8}"),
)

CLOUDS: Final = (
    SecretFormat("AWS", "(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]{16}"),
    _shape("AWS Bedrock", "(?:ABSK|bedrock-api-key-)", _BASE64, 60),
    _shape("Google", "AIza", _WORD, 30),
    _shape("Google OAuth", r"ya29\.", "[A-Za-z0-9_.-]", 20),
    _shape("Google refresh", f"1{_SLASH}{_SLASH}0", _WORD, 30),
    _shape("Google client", "GOCSPX-", _WORD, 20),
    SecretFormat("Azure AD", "", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", r"[0-9]Q~"),
    _shape("Azure storage", "(?i:(?:Account|SharedAccess)Key=)", _BASE64, 20),
    SecretFormat("Azure", "", f"{_ALNUM}{{52}}JQQJ99{_ALNUM}{{26}}", "JQQJ99"),
    SecretFormat(
        "Azure",
        "",
        rf"{_BASE64}{{40,80}}(?:\+|%2[Bb])A(?:St|Cd|SbE|zCA){_BASE64}{{2,8}}={{0,2}}",
        r"(?:\+|%2[Bb])A(?:St|Cd|SbE|zCA)",
    ),
    SecretFormat("Azure DevOps", "", f"{_ALNUM}{{76}}AZDO{_ALNUM}{{4}}", "AZDO"),
    _shape("DigitalOcean", "do[opr]_v1_", _HEX, 40),
    _shape("Alibaba", "LTAI", _ALNUM, 12),
    _shape("Tencent", "AKID", _ALNUM, 28),
    _shape("Volcengine", "AKLT", _ALNUM, 30),
    SecretFormat("Baidu", "bce-v3/ALTAK-", f"{_ALNUM}{{16,}}/{_HEX}{{30,}}"),
    _shape("Yandex", "(?:AQVN|AgAAAA|y[0-3]_)", _WORD, 33),
    SecretFormat("Yandex IAM", r"t1\.", r"[A-Za-z0-9_-]{20,}={0,2}\.[A-Za-z0-9_-]{60,}={0,2}"),
    SecretFormat("Scaleway", "SCW", "[A-Z0-9]{17}"),
    _shape("Heroku", "HRKU-", _WORD, 30),
    _shape("Fly.io", "(?:fo1_|fm1[ar]_|fm2_)", _BASE64, 40),
    _shape("Render", "rnd_", _ALNUM, 24),
    _shape("Vercel", "(?:vc[piark]_|vercel_blob_rw_)", "[A-Za-z0-9_]", 24),
    _shape("Netlify", "nf[pou]_", _ALNUM, 30),
    _shape("Supabase", "sbp_", _HEX, 40),
    _shape("Supabase", "sb_secret_", _WORD, 20),
    _shape("PlanetScale", "pscale_(?:tkn|oauth|pw)_", r"[A-Za-z0-9_=.-]", 30),
    _shape("Neon", "(?:napi|npg)_", _ALNUM, 12),
    _shape("MongoDB Atlas", "mdb_sa_sk_", _WORD, 30),
    _shape("Aiven", "AVNS_", _WORD, 18),
    _shape("Confluent", "cflt", "[A-Za-z0-9+/]", 60),
    SecretFormat("ClickHouse", "4b1d", f"{_ALNUM}{{38}}"),
    SecretFormat("CockroachDB", "CCDB1_", f"{_ALNUM}{{22}}_{_ALNUM}{{40}}"),
    SecretFormat("DataStax", f"AstraCS{_COLON}", f"{_ALNUM}{{20,}}{_COLON}{_HEX}{{64}}"),
    SecretFormat("Databricks", "dapi", f"{_HEX}{{32}}(?:-[0-9])?"),
    _shape("Databricks", "dose", _HEX, 32),
    SecretFormat("Cloudflare", r"v1\.0-", f"{_HEX}{{24}}-{_HEX}{{100,}}"),
    _shape("Cloudflare", "cf(?:ut|at|k)_", _ALNUM, 36),
    SecretFormat("Firebase", "AAAA", f"{_WORD}{{7}}:APA91b{_WORD}{{60,}}", ":APA91b"),
    _shape("OpenShift", "sha256~", _WORD, 43),
    _shape("Tailscale", "tskey-", _WORD, 20),
    _shape("Defined Networking", "dnkey-", r"[A-Za-z0-9=_-]", 40),
)

DEVELOPMENT: Final = (
    _shape("GitHub", "gh[oprsu]_", "[A-Za-z0-9_]", 16),
    _shape("GitHub", "github_pat_", "[A-Za-z0-9_]", 16),
    _shape("GitLab", "gl(?:pat|dt|rt|rtr|ptt|ft|imt|agent|oas|soat|ffct|wt|cbt)-", r"[A-Za-z0-9_.-]", 16),
    _shape("GitLab runner", "GR1348941", _WORD, 18),
    _shape("Bitbucket", "ATBB", _ALNUM, 24),
    _shape("Atlassian", "AT(?:A|C|S|OA)TT3", r"[A-Za-z0-9_=-]", 40),
    _shape("Trello", "ATTA", _HEX, 60),
    _shape("npm", "npm_", _ALNUM, 30),
    _shape("PyPI", "pypi-", _WORD, 50),
    _shape("RubyGems", "rubygems_", _HEX, 40),
    SecretFormat("NuGet", "oy2", "[a-z0-9]{43}", "oy2[a-z0-9]{8}"),
    SecretFormat("crates.io", "cio", f"{_ALNUM}{{32}}", "cio[A-Za-z0-9]{16}"),
    _shape("Clojars", "CLOJARS_", _ALNUM, 50),
    _shape("Docker", "dckr_(?:pat|oat)_", _WORD, 20),
    _shape("Artifactory", "(?:AKCp|cmVmd)", _ALNUM, 55),
    _shape("SonarQube", "sq[upa]_", _HEX, 40),
    SecretFormat("CircleCI", "CCIP(?:AT|RJ)_", f"{_ALNUM}{{10,}}_{_HEX}{{40}}"),
    _shape("Buildkite", "bk(?:ua|aj|ct|at)_", _ALNUM, 30),
    SecretFormat("Terraform", f"{_ALNUM}{{14}}\\.atlasv1\\.", r"[A-Za-z0-9_=-]{50,}", r"\.atlasv1\."),
    _shape("Vault", r"hv[sbr]\.", _WORD, 20),
    SecretFormat("Vault", r"s\.", rf"{_ALNUM}{{24}}\b", r"\bs\.[A-Za-z0-9]{20}", common=True),
    _shape("Doppler", r"dp\.(?:pt|st|ct|sa|said|scim|audit)\.", "[A-Za-z0-9_.-]", 40),
    SecretFormat("Infisical", r"st\.", f"{_ALNUM}{{20,}}\\.{_HEX}{{32}}\\.{_HEX}{{32}}", r"\.[0-9a-fA-F]{32}\."),
    _shape("1Password", "ops_eyJ", "[A-Za-z0-9+/_-]", 60),
    SecretFormat("1Password", "A3-", "[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}"),
    _shape("Pulumi", "pul-", _HEX, 40),
    _shape("Prefect", "pn[ub]_", _ALNUM, 30),
    SecretFormat(
        "Harness",
        r"(?:pat|sat)\.",
        r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
        r"[ps]at\.[A-Za-z0-9_-]{16}",
    ),
    SecretFormat("Octopus Deploy", "API-", "[A-Z0-9]{25,}"),
    SecretFormat("Sourcegraph", "(?:sgp_|slk_)(?:[0-9a-fA-F]{16}_|local_)?", f"{_HEX}{{40,}}", "(?:sgp|slk)_"),
    SecretFormat("Grafana", "glsa_", f"{_ALNUM}{{32}}_{_HEX}{{8}}"),
    _shape("Grafana Cloud", "glc_", "[A-Za-z0-9+/=]", 32),
    _shape("Grafana", "eyJrIjoi", "[A-Za-z0-9+/=]", 60),
    _shape("New Relic", "NR(?:AK|II|IQ|JS|RA|SP|AA|BR)-", _WORD, 19),
    SecretFormat("New Relic", "", "[0-9a-f]{6}[0-9a-fx]{0,2}[0-9a-f]{28,32}(?:NRAL|FFFFNRAL)", "NRAL"),
    SecretFormat("Dynatrace", r"dt0[a-z][0-9]{2}\.", r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    _shape("Sentry", "sntry[us]_", _BASE64, 40),
    _shape("Honeycomb", "hc[a-z]{1,2}[kc]_", _LOWER, 40),
    SecretFormat("Postman", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),
    SecretFormat("LaunchDarkly", "(?:api|sdk|mob)-", _UUID, "(?:api|sdk|mob)-[0-9a-f]{8}-"),
    _shape("Deno", "dd[pow]_", _ALNUM, 30),
    SecretFormat("WakaTime", "waka_(?:tok_|sec_)?", f"(?:{_UUID}|{_ALNUM}{{40,}})"),
    _shape("Snyk", "snyk_(?:uat|sat)", r"[A-Za-z0-9._-]", 40),
    _shape("Infracost", "ico-", _ALNUM, 32),
    _shape("Scalingo", "tk-us-", _WORD, 40),
    _shape("Settlemint", "sm_(?:aat|pat|sat)_", _ALNUM, 16),
    _shape("ReadMe", "rdme_", _LOWER, 50),
    _shape("Adobe", "p8e-", _ALNUM, 32),
    SecretFormat("age", "AGE-SECRET-KEY-1", "[A-Z0-9]{40,}"),
    SecretFormat("MaxMind", "", f"{_ALNUM}{{6}}_{_ALNUM}{{29}}_mmk", "_mmk"),
    SecretFormat("Mapbox", r"[sp]k\.eyJ", r"[A-Za-z0-9_-]{30,}\.[A-Za-z0-9_-]{20,}"),
    SecretFormat(
        "Authress",
        "(?:sc|ext|scauth|authress)_",
        r"[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}",
        r"\.acc[_-]",
    ),
    _shape("Intra 42", "s-s4t2(?:ud|af)-", _HEX, 60),
    _shape("Rootly", "rootly_", _HEX, 40),
    _shape("Zuplo", "zpka_", "[a-z0-9_]", 30),
    _shape("Val Town", "vtwn_", _ALNUM, 20),
)

OFFICES: Final = (
    SecretFormat("Slack", r"(?:xoxe\.)?xox[a-z]-", "[A-Za-z0-9-]{10,}"),
    SecretFormat("Slack", "xapp-[0-9]-", "[A-Za-z0-9-]{16,}"),
    SecretFormat(
        "Slack",
        rf"hooks\.slack\.com{_SLASH}(?:services|workflows|triggers){_SLASH}",
        f"{_BASE64}{{20,}}",
        "hooks[.]slack",
    ),
    SecretFormat(
        "Discord",
        "",
        r"[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{20}",
    ),
    SecretFormat(
        "Discord", f"api{_SLASH}webhooks{_SLASH}[0-9]{{10,20}}{_SLASH}", f"{_WORD}{{40,}}", "webhooks(?:/|%2F)"
    ),
    SecretFormat("Telegram", f"(?:bot)?[0-9]{{8,10}}{_COLON}", f"AA{_WORD}{{32,}}", "(?::|%3[Aa])AA[A-Za-z0-9_-]{4}"),
    SecretFormat("Microsoft Teams", f"webhookb2{_SLASH}", "(?:[A-Za-z0-9@/-]|%40|%2[Ff]){40,}", "webhookb2"),
    SecretFormat("Airtable", f"pat{_ALNUM}{{14}}\\.", f"{_HEX}{{40,}}", r"pat[A-Za-z0-9]{14}\."),
    _shape("Linear", "lin_(?:api|oauth)_", _ALNUM, 30),
    _shape("Notion", "ntn_", _ALNUM, 30),
    _shape("Notion", "secret_", _ALNUM, 30),
    SecretFormat(
        "Asana",
        f"[0-9]{_SLASH}[0-9]{{10,}}(?:{_SLASH}[0-9]{{10,}})?{_COLON}",
        f"{_ALNUM}{{32}}",
        "[0-9]{6}(?::|%3[Aa])[A-Za-z0-9]{8}",
    ),
    SecretFormat("ClickUp", "pk_[0-9]{5,}_", "[A-Z0-9]{32}"),
    _shape("Figma", "fig[doru]_", _WORD, 30),
    _shape("Typeform", "tfp_", r"[A-Za-z0-9_.-]", 40),
    _shape("Contentful", "CFPAT-", _WORD, 40),
    SecretFormat("HubSpot", "pat-(?:na|eu|ap)[0-9]-", _UUID),
    SecretFormat("Mailchimp", "", f"{_HEX}{{32}}-us[0-9]{{1,2}}", "-us[0-9]"),
    _shape("Mailgun", "(?:pub)?key-", _HEX, 32),
    SecretFormat("Mailgun", "", f"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}", "[0-9a-fA-F]-[0-9a-fA-F]{8}-[0-9a-fA-F]{8}"),
    SecretFormat("SendGrid", r"SG\.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    SecretFormat("Brevo", "(?:xkeysib|xsmtpsib)-", f"{_HEX}{{64}}-{_ALNUM}{{16}}"),
    SecretFormat("Resend", "re_", f"{_ALNUM}{{8}}_{_ALNUM}{{20,}}", "re_[A-Za-z0-9]{8}_"),
    _shape("Twilio", "SK", _HEX, 32),
    SecretFormat("Telnyx", "KEY", f"[0-9A-F]{{32}}_{_ALNUM}{{20,}}", "KEY[0-9A-F]{8}"),
    SecretFormat("Facebook", "EAA", f"{_ALNUM}{{30,}}", "EAA[A-Za-z0-9]{16}"),
    SecretFormat("Facebook", r"[0-9]{15,16}(?:\||%7[Cc])", f"{_WORD}{{27,}}", r"[0-9](?:\||%7[Cc])[A-Za-z0-9_-]{4}"),
    SecretFormat("Instagram", "IG[QA][A-Z]", f"{_ALNUM}{{60,}}"),
    SecretFormat("X", "A{20,}", "[B-Zb-z0-9%][A-Za-z0-9%]{50,}", "A{20}[B-Zb-z0-9%]"),
    SecretFormat("LinkedIn", r"WPL_AP[01]\.", r"[A-Za-z0-9.]{16,}={0,2}"),
    _shape("Dropbox", r"sl\.", _WORD, 60),
    _shape("Frame.io", "fio-u-", _WORD, 50),
    _shape("Samsara", "samsara_api_", _ALNUM, 20),
    _common("Beamer", "b_", r"[A-Za-z0-9=_-]", 44),
)

PAYMENTS: Final = (
    _shape("Stripe", f"[spr]k_{_MODE}_", "[A-Za-z0-9_]", 8),  # also Paystack, Clerk and Checkout.com
    _shape("Stripe webhook", "whsec_", "[A-Za-z0-9+/=]", 16),
    _shape("Square", "sq0(?:atp|csp|idp)-", _WORD, 22),
    SecretFormat("Square", "EAAA", f"{_WORD}{{56,}}", "EAAA[A-Za-z0-9_-]{16}"),
    SecretFormat(
        "PayPal", r"access_token(?:\$|%24)(?:production|sandbox)(?:\$|%24)", r"[a-z0-9]{16}(?:\$|%24)[0-9a-f]{32}"
    ),
    SecretFormat("Plaid", "(?:access|public|link)-(?:sandbox|development|production)-", _UUID),
    _shape("Shopify", "shp(?:at|ca|pa|ss|tka|ua)_", _HEX, 30),
    SecretFormat("Adyen", "AQE[a-z]h", r"[A-Za-z0-9+/_.{}\[\]()=-]{60,}"),
    SecretFormat("Flutterwave", "FLW(?:SEC|PUB)K(?:_TEST)?-", f"{_ALNUM}{{12,}}(?:-X)?"),
    _shape("Razorpay", "rzp_(?:live|test)_", _ALNUM, 14),
    _common("GoCardless", "(?:live|sandbox)_", _WORD, 40),
    _common("Mollie and Lob", "(?:live|test)_(?:pub_)?", _ALNUM, 30),
    _shape("EasyPost", "EZ[AT]K", _ALNUM, 50),
    _shape("Shippo", "shippo_(?:live|test)_", _HEX, 40),
    _shape("Duffel", "duffel_(?:live|test)_", _WORD, 40),
    _shape("Polar", "polar_[a-z]{2,4}_", _ALNUM, 30),
    SecretFormat("Paddle", "pdl_(?:live|sdbx)_apikey_", r"[A-Za-z0-9_]{30,}"),
    _shape("Persona", "persona_(?:sandbox|production)_", _WORD, 30),
    _shape("Onfido", r"api_(?:live|sandbox)(?:_[a-z]{2})?\.", r"[A-Za-z0-9_.-]", 20),
    _shape("Coinbase", f"organizations{_SLASH}[0-9a-f-]{{36}}{_SLASH}apiKeys{_SLASH}", "[0-9a-f-]", 36),
)

FORMATS: Final[tuple[SecretFormat, ...]] = (*MODELS, *CLOUDS, *DEVELOPMENT, *OFFICES, *PAYMENTS)
