"""Which documents and which question a prompt shows, by its layout alone, in many forms that applications write."""

import json
import re

import pytest

from ragmeter.adapters.reading.calls import last_reply
from ragmeter.adapters.reading.documents import Document
from ragmeter.adapters.reading.prompt_documents import asked_in, carried_in, contexts_in_prompts
from ragmeter.adapters.reading.results import ANY_TOOL, cut
from ragmeter.adapters.reading.step import Message, Step

ONE = "Kettle 4711 boils in three minutes flat, as long as it is not full."
TWO = "Kettle 12 needs five minutes in winter; in summer it is a little faster."
QUESTION = "How long does kettle 4711 take?"
ANSWER = "It takes three minutes flat."

SHOWN = {
    "fields in brackets": f"[[ ## context ## ]]\n[1] «{ONE}»\n[2] «{TWO}»\n\n[[ ## question ## ]]\n{QUESTION}\n\nFill in the field `answer`.",
    "quoted sections": f'Use the below articles.\n\nPart of an article:\n"""\n{ONE}\n"""\n\nPart of an article:\n"""\n{TWO}\n"""\n\nQuestion: {QUESTION}',
    "with a verb": f"The user's question is: {QUESTION}\n\nContext is: {ONE}\n\n{TWO}",
    "element named before": f"Your knowledge stands in <context></context> elements.\n\n<context>\n{ONE}\n\n{TWO}\n</context>\n\nQuestion: {QUESTION}",
    "element for the question": f'<context>\n<source id="1">{ONE}</source>\n<source id="2">{TWO}</source>\n</context>\n\n<user_query>\n{QUESTION}\n</user_query>',
    "file names": f"{QUESTION}\n\nSources:\nkettle.pdf#page=1: {ONE}\nwinter.md: {TWO}",
    "bullets and a bare question": f"Answer with these facts:\n* {ONE}\n* {TWO}\n\n{QUESTION}",
    "examples before": f"Context:\nThe moon orbits the earth in twenty-seven days.\nQuestion: How long does the moon take?\nAnswer: 27 days.\n\nContext:\n{ONE}\n\n{TWO}\nQuestion: {QUESTION}\nAnswer:",
    "titles": f"Use these documents:\n\n## kettle.md\n{ONE}\n\n## winter.md\n{TWO}\n\nQuestion: {QUESTION}",
    "elements of another name": f"Answer using the data.\n<Data>{ONE}</Data>\n<Data>{TWO}</Data>\n\nQuestion: {QUESTION}",
    "what was found, after the question": f"{QUESTION}\n\nHere is what I found:\n\n- {ONE}\n- {TWO}",
    "a label within a line": f"You sell kettles. Relevant passages:\n1. {ONE}\n2. {TWO}\n\nQuestion: {QUESTION}",
    "numbered notes": f"Answer only with facts from these notes.\n\nNote 1: {ONE}\nNote 2: {TWO}\n\nQuestion: {QUESTION}",
    "elements before an instruction and the question": f"<documents>\n<document>{ONE}</document>\n<document>{TWO}</document>\n</documents>\n\nAnswer with the documents above.\n\n{QUESTION}",
    "elements before the question and an instruction": f"You sell kettles.\n\n<documents>\n<document>{ONE}</document>\n<document>{TWO}</document>\n</documents>\n\nThe customer wants to know:\n\n{QUESTION}\n\nCite the document.",
    "elements alone": f"<question>{QUESTION}</question>\n<passages>\n<passage>{ONE}</passage>\n<passage>{TWO}</passage>\n</passages>",
    "scored headings": f"Retrieved documents:\n\n--- Document 1 (score 0.91) ---\n{ONE}\n\n--- Document 2 (score 0.8) ---\n{TWO}\n\nQuestion: {QUESTION}",
    "metadata in parentheses": f"Answer from the sources.\n\n(Source: a.md)\n{ONE}\n\n(Source: b.md)\n{TWO}\n\nQuestion: {QUESTION}",
    "numbers after a full stop": f"Answer from these passages.\n\n[1] {ONE}\n\n[2] {TWO}\n\nQuestion: {QUESTION}",
    "one object": json.dumps({"question": QUESTION, "context": [{"id": 1, "text": ONE}, {"id": 2, "text": TWO}]}),
    "Russian": f"Ответь по фрагментам ниже.\n\nФрагмент 1:\n{ONE}\n\nФрагмент 2:\n{TWO}\n\nВопрос пользователя: {QUESTION}",
    "Chinese numbers": f"资料：\n【1】{ONE}\n【2】{TWO}\n\n问题：{QUESTION}",
    "scores in words": f"Use these passages:\n\n(score 0.61) {ONE}\n\n(score 0.3) {TWO}\n\nQuestion: {QUESTION}",
    "relevance in brackets": f"Context:\n[relevance: 61%] {ONE}\n[relevance: 7%] {TWO}\n\nQuestion: {QUESTION}",
    "Chinese list": f"参考资料：\n1、{ONE}\n2、{TWO}\n\n问题：{QUESTION}",
    "wide parentheses": f"已知信息：\n（1）{ONE}\n（2）{TWO}\n\n问题：{QUESTION}",
    "Chinese headings": f"已知信息：\n文档1：{ONE}\n文档2：{TWO}\n\n根据上述信息回答用户的问题。问题是：{QUESTION}",
    "Spanish": f"Contexto:\n{ONE}\n\n{TWO}\n\nPregunta: {QUESTION}",
    "German headings": f"Antworte nur anhand der folgenden Auszüge.\n\nAuszug 1:\n{ONE}\n\nAuszug 2:\n{TWO}\n\nFrage: {QUESTION}",
    "Portuguese element": f"<contexto>\n{ONE}\n---\n{TWO}\n</contexto>\n\nPergunta: {QUESTION}",
    "Japanese numbers": f"文脈:\n[1] {ONE}\n\n[2] {TWO}\n\n質問: {QUESTION}",
    "Arabic": f"السياق:\n{ONE}\n\n{TWO}\n\nالسؤال: {QUESTION}",
    "sources in brackets": f"Context:\n[Source: a.md]\n{ONE}\n\n[Source: b.md]\n{TWO}\n\nQuestion: {QUESTION}",
    "names between rules": f"<context>\n--- Note: a ---\n{ONE}\n\n--- Note: b ---\n{TWO}\n</context>\n\nQuestion: {QUESTION}",
    "rules and names in a row": f"{QUESTION}\n\nRetrieved documents:\n===== Document 0 =====\n{ONE}===== Document 1 =====\n{TWO}",
    "passages with a number in brackets": f"Be brief.\n\n--- [Snippet 1] File: a.py ---\n{ONE}\n\n--- [Snippet 2] File: b.py ---\n{TWO}\n\nQuestion: {QUESTION}",
    "fields": f"Query: {QUESTION}\nKeywords: kettle\n\nRetrieved Documents:\nTitle: A\nDate: 2024-05-01\nContent: {ONE}\n\nTitle: B\nDate: 2024-05-02\nContent: {TWO}",
    "a rule before each": f"Context:\n\n---\n{ONE}\n\n---\n{TWO}\n\n---\n\nUser Question: {QUESTION}",
    "instructions and a question before": f"You sell kettles.\n{QUESTION}\n\nAnswer using the following information:\n{ONE}\n\n{TWO}",
    "question behind a sentence": f"Answer with this context:\n\n{ONE}\n\n---\n\n{TWO}\n\n---\n\nAnswer the question with the context above: {QUESTION}",
    "a label of several words": f"Rental excerpts:\n{ONE}\n\n{TWO}\n\nQuestion of the customer:\n{QUESTION}\n\nRules:\n- Be brief.\n- Be kind.",
    "a label below a heading": f"# Context\n\nRelevant passages:\n- {ONE}\n- {TWO}\n\nQuestion: {QUESTION}",
    "a sentence and a label": f"Answer with these documents:\n\nDocuments:\n{ONE}\n---\n{TWO}\n\nQuestion: {QUESTION}",
    "a heading below another": f"## Context\n### Retrieved documents\n{ONE}\n\n{TWO}\n\n## Question\n{QUESTION}",
    "rules around each": f"The customer asks about our documents.\n---\n{ONE}\n---\n{TWO}\n---\n\nQuestion: {QUESTION}",
    "rules after it": f"Reference documents:\n[1] {ONE}\n\n[2] {TWO}\n\nImportant rules:\n- Be brief.\n\nQuestion: {QUESTION}",
    "history after it": f"Documents:\n{ONE}\n\n---\n\n{TWO}\n\nChat history:\nUser: Hello there, who are you?\n\nQuestion: {QUESTION}",
    "a wide label": f"Staff information:\n{ONE}\n\n---\n\n{TWO}\n\nQuestion:\n{QUESTION}\n\nAnswer:",
    "a request after it": f"Query: {QUESTION}\n\nDocuments:\n{ONE}\n\n---\n\n{TWO}\n\nAnswer with the documents. Then name the files in the form:\nFiles: a, b",
    "a quoted question before": f'A user asked: "{QUESTION}"\n\nHere are the documents:\n\n[Document 1: a.md]\n{ONE}\n\n[Document 2: b.md]\n{TWO}\n\nFormat your answer as a list.',
    "a dialogue to go on with": f"Context:\n{ONE}\n\n---\n\n{TWO}\n\nUser: {QUESTION}\nAI:",
    "a list of objects": "Knowledge:\n" + json.dumps([{"content": ONE, "score": 1}, {"content": TWO, "score": 0}]) + f"\n\nQuestion: {QUESTION}",
    "Chinese contents": f"根据以下内容回答问题：\n{ONE}\n\n{TWO}\n 用户的问题是：{QUESTION}",
    "capitals": f"CONTEXT:\n{ONE}\n\n---\n\n{TWO}\n\nVERIFIED NUMBERS (use these):\nThree minutes, five minutes.\n\nUser says: {QUESTION}",
    "lines of sources": f"Knowledge base:\nProject document: a.md\n{ONE}\n\nProject document: b.md\n{TWO}\n\nQuestion: {QUESTION}",
    "Japanese quotes": f"質問「{QUESTION}」に答えて：\n\n検索結果:\n[情報1] {ONE}\n[情報2] {TWO}\n\n注意:\n- 簡潔に",
    "Russian capitals": f"КОНТЕКСТ ИЗ БАЗЫ ЗНАНИЙ:\n{ONE}\n\n{TWO}\n\nВОПРОС ПОЛЬЗОВАТЕЛЯ ИЗ ЧАТА:\n{QUESTION}\n",
    "Chinese rules": f"参考资料：\n[参考1] {ONE}\n\n[参考2] {TWO}\n\n重要规则：\n- 简短\n\n用户问题：{QUESTION}",
    "Japanese brackets": f"【ドキュメント】\n{ONE}\n\n{TWO}\n\n【質問】\n{QUESTION}",
    "Japanese rules": f"親切に。\n--- 参考資料 ---\n{ONE}\n\n{TWO}\n--- ユーザーの質問 ---\n{QUESTION}",
    "Vietnamese": f"Ngữ cảnh:\n[Document 1 | Nguồn: a]\n{ONE}\n\n---\n[Document 2 | Nguồn: b]\n{TWO}\n\nCâu hỏi: {QUESTION}",
    "Turkish": f"Bağlam:\n{ONE}\n\n{TWO}\n\nSoru: {QUESTION}\nCevap:",
    "Thai": f"เนื้อหาจาก PDF:\n{ONE}\n\n---\n\n{TWO}\n\nประวัติการสนทนา:\n\n\nคำถามปัจจุบัน: {QUESTION}\n\nคำตอบ:",
    "Japanese": f"コンテキスト:\n{ONE}\n\n{TWO}\n\n質問: {QUESTION}",
    "a quoted question in a sentence": f'The traveller asked: "{QUESTION}"\n\nHere are the top matching places:\n- {ONE}\n- {TWO}\n\nWrite a short answer.',
    "a question and instructions before": f"{QUESTION}\n\nUse only these search results. Cite them.\n\nSearch results:\n\n[1] {ONE}\n\n[2] {TWO}",
    "lines of objects": "Context:\n" + json.dumps({"id": "a", "text": ONE}) + "\n" + json.dumps({"id": "b", "text": TWO}) + f"\n\nQuestion: {QUESTION}",
    "a list in Python": f"Context: {[ONE, TWO]}\n\nQuestion: {QUESTION}",
    "objects in Python": f"Context:\n[Document(metadata={{'source': 'a.md'}}, page_content={ONE!r}), Document(metadata={{'source': 'b.md'}}, page_content={TWO!r})]\n\nQuestion: {QUESTION}",
    "an object each between rules": "Reference:\n" + "\n---\n".join(json.dumps({"id": 1, "content": one}, indent=1) for one in (ONE, TWO)) + f"\n\nQuestion: {QUESTION}",
    "objects in a fence": "Context:\nTerms:\n```json\n" + json.dumps({"term": "kettle"}) + "\n```\nChunks (by id):\n```json\n" + json.dumps({"id": 1, "content": ONE}) + "\n" + json.dumps({"id": 2, "content": TWO}) + f"\n```\n\nQuestion: {QUESTION}",
    "a question in a fence": f"Question:\n```\n{QUESTION}\n```\nBe brief.\n\nSearch results:\n[1] {ONE}\n\n[2] {TWO}",
    "an indented list of objects": "Relevant knowledge:\n" + json.dumps([{"title": "t", "text": ONE}, {"title": "u", "text": TWO}], indent=2) + f"\n\nQuestion: {QUESTION}",
    "these documents in a line": f"Answer by these documents: [1] {ONE}\n\n[2] {TWO}\n\nQuestion: {QUESTION}",
    "percent signs": f"Answer from the context.\n\n%CONTEXT%\n{ONE}\n\n{TWO}\n\n%Question%\n{QUESTION}\n\nAnswer:",
    "elements named before": f"Use the <Document> elements for the <Question>.\n<Document>{ONE}</Document>\n<Document>{TWO}</Document>\n<Question>{QUESTION}</Question>",
    "the longer of two elements": f'<evidence>\n{{"price": 4}}\n</evidence>\n\n<documents>\n{ONE}\n---\n{TWO}\n</documents>\n\nQuestion: {QUESTION}',
    "memories": f"Relevant memories:\nMemory: {ONE}\nMemory: {TWO}\n\nQuestion: {QUESTION}",
    "a rule and a sentence before the question": f"Context:\n{ONE}\n\n{TWO}\n---\nNow here is your question.\n\nQuestion: {QUESTION}",
    "parts of a file": f"Here are relevant parts of a file:\n{ONE}\n---\n{TWO}\n\nUser's question: {QUESTION}",
    "a question in the end": f"Reference material:\n[a]\n{ONE}\n\n[b]\n{TWO}\n\n{QUESTION}",
    "a profile before": f"USER CONTEXT:\nplan: free\n\nDOCUMENTATION:\n{ONE}\n\n{TWO}\n\nUSER QUESTION:\n{QUESTION}",
    "two speakers": f"HR policy context:\n{ONE}\n\n{TWO}\n\n\nEmployee: {QUESTION}\nHR Assistant:",
    "headings without marks": f"Instructions\nBe brief.\n\nRetrieved Context\n{ONE}\n\n{TWO}\n\nUser Question\n{QUESTION}",
    "numbered sources in capitals": f"RETRIEVED EVIDENCE:\nSOURCE 1 (a.md):\n{ONE}\n\nSOURCE 2 (b.md):\n{TWO}\n\nQUESTION:\n{QUESTION}",
    "French": f"Voici les extraits trouvés :\n\n{ONE}\n\n{TWO}\n\nVotre mission : Répondre à la question suivante en français :\n\n{QUESTION}\n",
    "German compound": f"Fakten-Kontext:\n{ONE}\n---\n{TWO}\n\nBeantworte folgende Frage: {QUESTION}",
    "Russian data": f"Вопрос: «{QUESTION}»\n\nРезультат поиска:\n{ONE}\n\n{TWO}\n\nДай полный ответ.",
    "Chinese parts": f"检索到的文本片段：{ONE}\n\n{TWO}\n\n任务：准确回答。\n\n用户问题：{QUESTION}",
    "Chinese topics": f"【用户问题】\n{QUESTION}\n\n【相关话题】\n{ONE}\n\n{TWO}\n\n【回答要求】\n1. 简短",
    "elements that are numbered": f"<context><0>{ONE}</0><1>{TWO}</1></context>\n\nThink step by step.\nQuestion: {QUESTION}",
    "Japanese lines with a number": f"文脈に基づいて答えてください。\n\n質問：{QUESTION}\n\n こちらは関連する文脈 0 です：{ONE}\n こちらは関連する文脈 1 です：{TWO}",
    "start and end in brackets": f"You are a lawyer.\n\n[Context Snippets Start]\n{ONE}\n\n{TWO}\n[Context Snippets End]\n\n[Question Start]\n{QUESTION}\n[Question End]\n\nAnswer:\n",
    "numbers below any label": f"Customer question: {QUESTION}\n\nReviews you may use (and nothing else):\n\n[1] {ONE}\n\n[2] {TWO}\n\nAnswer the question using ONLY these.",
    "capitals before the question": f"Answer from the CONTEXT below.\n\nCONTEXT:\n{ONE}\n\n{TWO}\n\nUSER LEVEL: The user knows a lot. Be brief.\n\nUSER QUESTION: {QUESTION}\n\nAnswer clearly.",
    "a speaker in the end": f"Learned facts:\nBe brief.\n\nRetrieved policy documents:\n{ONE}\n\n{TWO}\n\nAnswer the user using the above.\n\nUser: {QUESTION}",
    "a picture before a label": f"📚 Knowledge base:\n{ONE}\n\n{TWO}\n\nQuestion: {QUESTION}",
    "Russian data from the web": f"На основе этих данных из интернета:\n- {ONE}\n- {TWO}\n\nКратко ответь на вопрос: {QUESTION}",
    "Russian with an instruction behind": f"Контекст: {ONE}\n\n{TWO}\n\nИспользуя контекст, ответь на вопрос: {QUESTION} Не используй свои знания.",
    "a list as Python writes it": f"Ответь на вопрос: {QUESTION} \n   Используя только заданный контекст {[ONE, TWO]}",
    "Chinese fences": f"以下是我记录的一些“参考内容”，都是历史记录：\n--------------\n{ONE}\n\n{TWO}\n--------------\n你需要结合“参考内容”来回答用户的提问。\n\n问题：{QUESTION}",
    "traditional Chinese": f"請以以下內容為基礎，回答問題。\n\n{ONE}\n\n{TWO}\n\n問題： {QUESTION}\n答案：",
    "a label of the trade": f"Menu & info:\n{ONE}\n\n{TWO}\n\nCustomer question: {QUESTION}",
    "records in YAML": f"passages:\n- id: p1\n  source: a.md\n  text: {ONE}\n- id: p2\n  source: b.md\n  text: |\n    {TWO}\n\nQuestion: {QUESTION}",
    "contents above their sources": f"Contexts:\nContent: {ONE}\nSource: a.md\n\nContent: {TWO}\nSource: b.md\n\nQuestion: {QUESTION}",
    "a table": f"Answer from these hits.\n\n| # | source | text |\n|---|---|---|\n| 1 | a.md | {ONE} |\n| 2 | b.md | {TWO} |\n\nQuestion: {QUESTION}",
    "numbers and names": f"Sources:\n\n(1) Kettles (https://a.example)\n{ONE}\n\n(2) Winter (https://b.example)\n{TWO}\n\nQuestion: {QUESTION}",
    "headings with a rank and a score": f"Relevant excerpts:\n\nExcerpt #1 | score 0.83 | a.md:\n{ONE}\n\nExcerpt #2 | score 0.61 | b.md:\n{TWO}\n\nAnswer this: {QUESTION}",
    "headings between rules": f"参考资料：\n文献1（相关度：0.91）：\n{ONE}\n\n---\n\n文献2（相关度：0.80）：\n{TWO}\n\n问题：{QUESTION}",
    "shares of similarity": f"Top matches:\n(92.1%) {ONE}\n(80.4%) {TWO}\n\nQuestion: {QUESTION}",
    "files in excerpts": f"Answer the question with the snippets.\n\nExcerpt from a.md (lines 1-9):\n{ONE}\n\nExcerpt from b.md (lines 2-3):\n{TWO}\n\nQ: {QUESTION}\nA:",
    "the label above each": f"=== RETRIEVED ===\n{ONE}\n=== RETRIEVED ===\n{TWO}\n=== QUESTION ===\n{QUESTION}",
    "a fence for each": f"Context:\n```\n{ONE}\n```\n```\n{TWO}\n```\nUser question: {QUESTION}",
    "bars in a line": f"CONTEXT: {ONE} ||| {TWO}\nQUESTION: {QUESTION}",
    "arrows": f"Context:\n{ONE}\n>>>\n{TWO}\n\nQuestion: {QUESTION}",
    "solved tickets": f"You help agents.\n\nSIMILAR RESOLVED TICKETS:\nTicket #8812: {ONE}\nTicket #9017: {TWO}\n\nNEW TICKET:\n{QUESTION}\n\nSuggest a reply.",
    "fields of another name": json.dumps({"user_query": QUESTION, "document_chunks": [{"chunk_1": ONE}, {"chunk_2": TWO}], "instructions": "Be brief."}),
    "Japanese without a blank line": f"以下のcontextだけに基づいて回答してください。\n{ONE}\n\n{TWO}\n\n直近の会話:\nなし\n\n質問:\n{QUESTION}",
    "a field within a field": json.dumps({"student": {"name": "Ana", "question": QUESTION}, "passages": [ONE, TWO]}),
    "letters": f"Sources:\n(a) {ONE}\n(b) {TWO}\n\nQuestion: {QUESTION}",
    "a task behind": f"Student question: {QUESTION}\n\nCourse excerpts:\n1. {ONE}\n2. {TWO}\n\nExplain in simple words.",
    "facts and an instruction": f"Facts:\n- {ONE}\n- {TWO}\n\nUsing these facts, answer: {QUESTION}",
    "Russian sections": f"### Справочная информация\n{ONE}\n###\n{TWO}\n### Вопрос клиента\n{QUESTION}\n### Ответ\n",
    "Turkish sources": f"Aşağıdaki kaynaklara göre yanıtla.\n\nKaynak 1: {ONE}\n\nKaynak 2: {TWO}\n\nSoru: {QUESTION}\nCevap:",
    "quotations": f"Context:\n> {ONE}\n>\n> {TWO}\n\nQuestion: {QUESTION}",
    "signs and names": f"Context:\n📄 kettle.md\n{ONE}\n\n📄 winter.md\n{TWO}\n\nQuestion: {QUESTION}",
    "arrows before each": f"Context:\n→ {ONE}\n→ {TWO}\n\nQuestion: {QUESTION}",
    "Roman numbers": f"Sources:\nI. {ONE}\nII. {TWO}\n\nQuestion: {QUESTION}",
    "ids of chunks": f"Context:\nchunk_17a: {ONE}\nchunk_9b2: {TWO}\n\nQuestion: {QUESTION}",
    "scores in parentheses": f"Context:\n(similarity=0.83) {ONE}\n(similarity=0.7) {TWO}\n\nQuestion: {QUESTION}",
    "sources below": f"Context:\n{ONE}\nSource: a.md\n\n{TWO}\nSource: b.md\n\nQuestion: {QUESTION}",
    "names behind a dash": f"Context:\n{ONE}\n— kettle.pdf, p. 3\n\n{TWO}\n— winter.pdf, p. 1\n\nQuestion: {QUESTION}",
    "elements of parts": f"<context>\n<source><source_id>1</source_id><source_context>{ONE}</source_context></source>\n<source><source_id>2</source_id><source_context>{TWO}</source_context></source>\n</context>\n\n{QUESTION}",
    "rules in one element": f"<Reference>\n{ONE}\n------\n{TWO}\n</Reference>\n\nQuestion: {QUESTION}",
    "commas": f'Context:\nid,text\n1,"{ONE}"\n2,"{TWO}"\n\nQuestion: {QUESTION}',
    "tabs": f'-----Sources-----\n```csv\nid,\tcontent\n0,\t"{ONE}"\n1,\t"{TWO}"\n```\n\nQuestion: {QUESTION}',
    "a line of the template in each": f"Knowledge base:\nDocument: a.md\nRelevant fragments:\n1. {ONE}\n\nDocument: b.md\nRelevant fragments:\n2. {TWO}\n\nQuestion: {QUESTION}",
    "ends between rules": f"Answer from the sources below.\n\n--- Source 1: a.md ---\n{ONE}\n--- End of Source 1 ---\n\n--- Source 2: b.md ---\n{TWO}\n--- End of Source 2 ---\n\nQuestion: {QUESTION}",
    "sources and a fence": f"Use the following parts of a document.\n\nQUESTION: {QUESTION}\n=========\nContent: {ONE}\nSource: a.md\n\nContent: {TWO}\nSource: b.md\n=========\nFINAL ANSWER:",
    "an example with its answer": f"Cite the sources. For example:\nSource 1:\nThe sky is red in the evening and blue in the morning.\nQuery: When is the sky red?\nAnswer: In the evening [1].\nBelow are several numbered sources of information:\n------\nSource 1:\n{ONE}\n\nSource 2:\n{TWO}\n------\nQuery: {QUESTION}\nAnswer:",
    "a goal between rules": f"-----Sources-----\nid|text\n1|{ONE}\n2|{TWO}\n\n---Goal---\n\nBe brief.\n\nQuestion: {QUESTION}",
    "the above": f"Here is the knowledge base:\n[1] {ONE}\n\n[2] {TWO}\nThe above is the knowledge base.\n\nQuestion: {QUESTION}",
    "names above fences": f"CONTEXT:\nDOCUMENT 1: a.md\nUpdated: January 2025\n```\n{ONE}\n```\n\nDOCUMENT 2: b.md\nUpdated: May 2025\n```\n{TWO}\n```\n\nQUESTION: {QUESTION}",
    "metadata above paragraphs": f"Context information is below.\n---------------------\npage_label: 1\nfile_path: a.md\n\n{ONE}\n\npage_label: 2\nfile_path: b.md\n\n{TWO}\n---------------------\nQuery: {QUESTION}\nAnswer:",
    "metadata below contents": f"{QUESTION}\n\nAnswer using the following information:\ncontent: {ONE}\nfile_name: a.md\nindex: 0\n\ncontent: {TWO}\nfile_name: b.md\nindex: 1",
    "an instruction behind the last": f"Here are the search results:\n\n[1]: {ONE}\n\n[2]: {TWO}\n\nDo not answer anything else.\n\nQuestion: {QUESTION}",
    "waves between": f"Context:\n{ONE}\n~~~\n{TWO}\n\nQuestion: {QUESTION}",
    "three fences": f"Question: {QUESTION}\n\nUse only these pieces of context for the answer. Do not make one up.\n\n=============\n{ONE}\n=============\n{TWO}\n=============\n\nQuestion: {QUESTION}\nAnswer:",
    "ends with a number": f"Context:\n[CONTEXT 0]:\n{ONE}\n[END CONTEXT 0]\n\n[CONTEXT 1]:\n{TWO}\n[END CONTEXT 1]\n\nQuestion: {QUESTION}",
    "objects in an element of any name": "Use what the element holds as reference:\n\n<Cites>\n" + json.dumps([{"id": 1, "content": ONE}, {"id": 2, "content": TWO}]) + f"\n</Cites>\n\nQuestion: {QUESTION}",
    "objects between rules": "-----Document Chunks-----\n\n```json\n" + json.dumps([{"id": 1, "content": ONE}, {"id": 2, "content": TWO}]) + f"\n```\n\nQuestion: {QUESTION}",
    "nested objects": "Answer from the search results.\n\nResults: " + json.dumps([{"file": "a.md", "content": [{"type": "text", "text": ONE}]}, {"file": "b.md", "content": [{"type": "text", "text": TWO}]}]) + f"\n\nQuestion: {QUESTION}",
    "lines that draw a tree": f"以下是知识库：\nID: 0\n├── Title: a.md\n└── Content:\n{ONE}\n------\nID: 1\n├── Title: b.md\n└── Content:\n{TWO}\n以上是知识库。\n\n问题：{QUESTION}",
    "from files": f"Relevant excerpts:\n\nFrom a.md:\n{ONE}\n\n---\n\nFrom b.md:\n{TWO}\n\nQuestion: {QUESTION}",
    "double rules around it": f"{QUESTION}\n\n══════════════\nCONTEXT (USE IT):\n══════════════\n{ONE}\n---\n{TWO}\n══════════════\nIMPORTANT: Answer only from the information above.\n══════════════",
    "a question in the same line": f"Answer based only on the following context: {ONE}\n\n{TWO} Question: {QUESTION} ",
    "a role in capitals": f"КОНТЕКСТ:\n{ONE}\n\n{TWO}\n\nРОЛЬ ПОЛЬЗОВАТЕЛЯ: user\n\nПРАВИЛА ОТВЕТА:\n1. Кратко\n\nВОПРОС: {QUESTION}\n\nОТВЕТ:",
    "Russian files": f"Используй следующую информацию:\n\nФайл: a.md\n{ONE}\n---\nФайл: b.md\n{TWO}\n---\n\nВопрос: {QUESTION}",
    "Russian similarities": f"Контекст:\nИсточник: a.md\nКонтекст: {ONE}\nСходство: 0.91\n\nИсточник: b.md\nКонтекст: {TWO}\nСходство: 0.9\n\nВопрос: {QUESTION}",
    "a Chinese line above a fence": f"{QUESTION}\n\n下面是上下文信息\n---------------------\n{ONE}\n\n{TWO}\n---------------------\n给定的上下文，而不是事先的知识，回复用户。",
    "an HTML list": f"Context:\n<ul>\n<li>{ONE}</li>\n<li>{TWO}</li>\n</ul>\n\nQuestion: {QUESTION}",
    "turns of a chat template": f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\nBe brief.<|eot_id|>\n<|start_header_id|>user<|end_header_id|>\nContext:\n{ONE}\n\n{TWO}\n\nQuestion: {QUESTION}<|eot_id|>\n<|start_header_id|>assistant<|end_header_id|>\n",
    "an instruction in tokens": f"<s>[INST] Use the context.\n\nContext: {ONE}\n\n{TWO}\n\nQuestion: {QUESTION} [/INST]",
    "elements with Russian names": f"Ответь по контексту.\n<контекст>\n{ONE}\n***\n{TWO}\n</контекст>\n<вопрос>{QUESTION}</вопрос>",
    "elements with Chinese names": f"使用以下片段回答。\n<片段>\n{ONE}\n</片段>\n<片段>\n{TWO}\n</片段>\n\n问题：{QUESTION}",
    "sources behind each line": f"Context:\n- {ONE} (extracted from a.md)\n- {TWO} (extracted from b.md)\n\nQuestion: {QUESTION}",
    "pages behind paragraphs": f"Context:\n{ONE} (p. 12)\n\n{TWO} (p. 13)\n\nQuestion: {QUESTION}",
    "files behind numbers": f"Fuentes:\n(1) a.md: {ONE}\n\n(2) b.md: {TWO}\n\nPregunta: {QUESTION}",
    "paths and excerpts": f"### Context:\nCollection: docs\nPath: /d/a\nExcerpt: {ONE}\n\nCollection: docs\nPath: /d/b\nExcerpt: {TWO}\n\n{QUESTION}",
    "names of a program": f"Use the retrieved documents.\n\nretrieved_docs = {[{'page_content': ONE}, {'page_content': TWO}]}\n\nquestion = {QUESTION}",
    "what may be relevant": f"Here are notes that may be relevant:\n\n{ONE}\n\n=====\n\n{TWO}\n\nUsing them, answer: {QUESTION}",
    "an instruction above the first": f"Use the following context snippets, which are not ordered, for your answer.\nThese snippets are samples, and all that you may use to answer the question.\n\n{ONE}\n---\n{TWO}\n\nQuestion: {QUESTION}",
    "an element for the question in a line": f'Here are the search results:\n<search_results>\n<item index="1">\n<page_content>\n{ONE}\n</page_content>\n</item>\n<item index="2">\n<page_content>\n{TWO}\n</page_content>\n</item>\n</search_results>\n\nHere is the question: <question>{QUESTION}</question>\n\nAnswer with them.',
    "rules of two dashes": f"You have this:\nDOCUMENTS:\n{ONE}\n\n{TWO}\n--\nQUESTION:\n{QUESTION}\n--\nINSTRUCTIONS:\nBe brief.\n",
}  # fmt: skip
WITHIN = {
    "numbered lists": ["Change the drum of the printer:\n1. Switch it off\n2. Open it", "Reset the counter of the printer:\n1. Hold the key\n2. Wait for the lamp"],
    "code with a blank line": ["Open a session of the client.\n```python\nclient = Client()\n\nclient.open()\n```", "Close a session of the client.\n```python\nclient.close()\n```"],
    "two paragraphs in the last": ["[1] The ferry leaves at nine on weekdays in winter.", "[2] Bicycles travel free on every ferry of the line.\n\nYou may ask your skipper for a place."],
    "sources below paragraphs": ["The ferry leaves at nine on weekdays in winter.\n\nIt is back at six.\n(Source: a.md)", "Bicycles travel free on every ferry.\n\nDogs need a ticket.\n(Source: b.md)"],
    "lists of dashes": ["Прежде чем подать заявку, подготовьте:\n— паспорт и договор\n— номер лицевого счёта", "После подачи заявки ответ придёт:\n— на электронную почту\n— в приложение банка"],
}  # fmt: skip
"""Passages with marks of their own."""
PARAGRAPHS = {
    "lists": "Prices of the ferry in winter are these:\n\n- adults pay twelve euros\n- children pay six euros\n\nTimes of the ferry in winter are these:\n\n- it leaves at nine\n- it is back at six",
    "numbered passages": "1. The ferry to Oslo leaves at nine in winter.\n\nIt is back at six in the evening, except on Sundays.\n2. Bicycles travel free on every ferry of the line.\n\nDogs need a ticket of their own.",
    "headings": "## Prices\n\nAdults pay twelve euros for the ferry to Oslo.\n\n### Children\n\nChildren pay six euros for the ferry to Oslo.",
}
"""Passages in which blank lines are certain."""
NOT_DIVIDED = {
    "a sentence": f"Use the following text: {ONE} to answer this question: {QUESTION}",
    "a sentence in Russian": f"Ответь на вопрос «{QUESTION}», опираясь на текст: {ONE}",
    "a block": f"You are kind.\nSTART CONTEXT BLOCK\n{ONE}\n{TWO}\nEND OF CONTEXT BLOCK\nStay within the block.\n\nQuestion: {QUESTION}",
}
NOT_SHOWN = {
    "a text to review": f"Review the text below with the provided documents in mind.\nBe strict.\n\n{ONE}\n\n{TWO}",
    "a page to sum up": f"Summarise this page in one sentence.\n\n<article>{ONE}</article>\n<article>{TWO}</article>",
    "two texts to choose from": f"Which of the two is easier to read?\n\nText A:\n{ONE}\n\nText B:\n{TWO}",
    "a table of numbers": "Which kettle sold best?\n\n| kettle | units | comment |\n|---|---|---|\n| 4711 | 120 | sold out in the second week of March |\n| 12 | 80 | returned by many because of the lid |",
    "notes to sum up": f"Sum up these notes:\n\n- {ONE}\n- {TWO}",
    "a text to translate": f"Translate into French:\n\n{ONE}\n\n{TWO}",
    "an object to sum up": json.dumps({"task": "sum up", "documents": [ONE, TWO]}),
    "an object about a user": json.dumps({"name": "Maria", "information": ONE}),
    "answers to compare": f"Compare.\n\nAnswer 1: {ONE}\n\nAnswer 2: {TWO}\n\nWhich is better?",
    "a conversation": f"So far:\n\nUser: {ONE}\n\nAssistant: {TWO}\n\nWrite a short title.",
    "a glossary": f"Translate.\n\nGlossary:\n- kettle: Kessel\n- winter: Winter\n\n{ONE}",
    "facts and two more lists": f"CONTEXT:\n- Platform: web\n- Tone: calm\n\nTRENDS (this week):\n{ONE}\n\nUSED TRENDS:\n{TWO}\n\nPick one.",
    "a persona": f"[PROFILE]\n{ONE}\n\n[STYLE]\n{TWO}",
    "examples": f"Example 1:\nQ: {ONE}\nA: Yes.\n\nExample 2:\nQ: {TWO}\nA: No.\n\nQ: And the kettle?",
    "parts of a change": f"Find the fault.\n\n### File: a.yml\n{ONE}\n\n### Recent changes\n{TWO}",
    "points to keep": f"Keep these relevant points in mind:\n- {ONE}\n- {TWO}",
    "a form to read": f"Extract the following information:\n\n{ONE}\n\n{TWO}",
    "a schema": f"Schema:\nCREATE TABLE kettles (id int, minutes int, colour text);\n\nCREATE TABLE rooms (id int, kettle int, name text);\n\nQuestion: {QUESTION}\nSQL:",
    "things to do": f"Today:\n- {ONE}\n- {TWO}\n\nQuestion: What do I do first?",
    "documents to classify": f"Classify these documents: {[ONE, TWO]} as news or order.",
    "tools": f"Answer the question. You have these tools:\n\nboil: {ONE}\n\nwait: {TWO}\n\nUse this format:\n\nQuestion: the question\nThought: what to do\n\nQuestion: {QUESTION}\nThought:",
    "numbered instructions": f"Answer from the sources.\n\n1. {ONE}\n2. {TWO}",
}


def call(*texts, said=ANSWER, began=1):
    messages = tuple(Message("user", text) for text in texts)
    return Step(id=str(began), started_ns=began, ended_ns=began + 1, messages=messages, said=said)


def shown_in(*sent):
    step = Step(id="1", started_ns=1, ended_ns=2, messages=tuple(Message(*one) for one in sent), said=ANSWER)
    return contexts_in_prompts([step], ANSWER, asked_in([step]))


def divided_in(context):
    return contexts_in_prompts([call(f"Context:\n{context}\n\nQuestion: {QUESTION}")], ANSWER, QUESTION)


@pytest.mark.parametrize("layout", SHOWN)
def test_a_layout_that_divides_documents_shows_them_and_the_question(layout):
    shown = shown_in(("user", SHOWN[layout]))

    assert asked_in([call(SHOWN[layout])]) == QUESTION
    assert shown.is_divided
    assert [item.text for item in shown.documents] == [ONE, TWO]


def test_a_title_below_a_heading_belongs_to_its_passage():
    shown = divided_in(f"Document 1:\nKettles\n{ONE}\n\nDocument 2:\nWinter\n{TWO}")

    assert [item.text for item in shown.documents] == [f"Kettles\n{ONE}", f"Winter\n{TWO}"]


@pytest.mark.parametrize(
    "instructions",
    [
        ["Answer from the context.", f"Context:\n{ONE}", f"Context:\n{TWO}"],
        ["You sell kettles. Use only these documents.", f"Document 1:\n{ONE}", f"Document 2:\n{TWO}"],
    ],
)
@pytest.mark.parametrize("role", ["system", "user"])
def test_passages_may_stand_in_a_message_each(role, instructions):
    shown = shown_in(*((role, text) for text in instructions), ("user", QUESTION))

    assert shown.is_divided
    assert [item.text for item in shown.documents] == [ONE, TWO]


@pytest.mark.parametrize(
    ("messages", "texts"),
    [
        ([("assistant", f"Context:\n\n[1] {ONE}\n\n[2] {TWO}"), ("user", QUESTION)], [ONE, TWO]),
        ([("user", QUESTION), ("assistant", f"Context:\n\n[1] {ONE}\n\n[2] {TWO}")], [ONE, TWO]),
        ([("user", "Name two."), ("assistant", f"Sources:\n\n[1] {ONE}\n\n[2] {TWO}"), ("user", QUESTION)], []),
        ([("assistant", f"I answer questions about:\n\n- {ONE}\n- {TWO}"), ("user", QUESTION)], []),
    ],
)  # fmt: skip
def test_what_no_model_said_in_its_name_may_be_the_context(messages, texts):
    shown = shown_in(*messages)

    assert [item.text for item in (shown.documents if shown else ())] == texts


def test_earlier_turns_in_a_chat_template_are_history():
    earlier = f"<|im_start|>user\nContext:\n[1] {TWO}\n\nQuestion: Winter?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
    text = f"{earlier}<|im_start|>user\nContext:\n[1] {ONE}\n\nQuestion: {QUESTION}<|im_end|>\n<|im_start|>assistant\n"

    shown = contexts_in_prompts([call(text)], ANSWER, asked_in([call(text)]))

    assert asked_in([call(text)]) == QUESTION
    assert [item.text for item in shown.documents] == [ONE]
    assert [item.text for item in carried_in([call(text)], ANSWER, [ONE])] == [TWO]


@pytest.mark.parametrize("layout", NOT_DIVIDED)
def test_a_layout_that_does_not_divide_shows_one_text_without_ranks(layout):
    shown = shown_in(("user", NOT_DIVIDED[layout]))

    assert asked_in([call(NOT_DIVIDED[layout])]) == QUESTION
    assert not shown.is_divided
    assert [item.text for item in shown.documents] in ([ONE], [f"{ONE}\n{TWO}"])


FIRST = "The ferry leaves at nine on weekdays in winter.\n\nIt is back at six in the evening."
SECOND = "Bicycles travel free on every ferry of the line.\n\nDogs need a ticket of their own."
OF_PARAGRAPHS = [
    "Passage: {}\n\nPassage: {}", "Summary 1: {}\n\nSummary 2: {}", "Заметка 1: {}\n\nЗаметка 2: {}",
    "(1) {}\n\n(2) {}", "1. {}\n\n2. {}", "• {}\n\n• {}", "§ {}\n\n§ {}", "D1> {}\n\nD2> {}", "#1 {}\n\n#2 {}",
    "Text A: {}\n\nText B: {}", "From a.md:\n{}\n\nFrom b.md:\n{}", "kb/a.md\n{}\n\nkb/b.md\n{}", "ID=17\n{}\n\nID=18\n{}",
    "Ссылка: https://a.example/1\n{}\n\nСсылка: https://a.example/2\n{}", "Hit (0.83): {}\n\nHit (0.71): {}",
    "Memory 1 [2024-01-02]: {}\n\nMemory 2 [2024-01-05]: {}", "Claim 1 -> {}\n\nClaim 2 -> {}", "{}\n\n\n{}",
    "### a.md\n```\n{}\n```\n\n### b.md\n```\n{}\n```", "{}\n\n* * *\n\n{}", "{}\n<EOD>\n{}\n<EOD>",
    "<<BEGIN DOC>>\n{}\n<<END DOC>>\n<<BEGIN DOC>>\n{}\n<<END DOC>>", "{}\n\n(source: a.md)\n\n{}\n\n(source: b.md)",
    "{}（来源：a.md）\n\n{}（来源：b.md）", "Doc-1 | a.md | 0.83\n{}\n\nDoc-2 | b.md | 0.71\n{}", "Chunk 1/2:\n{}\n\nChunk 2/2:\n{}",
    "Result 1 of 2:\n{}\n\nResult 2 of 2:\n{}", "Документ «Правила»:\n{}\n\nДокумент «Тарифы»:\n{}", "    {}\n\n    {}",
    "[Doc 1] Ferries\n{}\n\n[Doc 2] Bicycles\n{}", "<br>\n<b>From a.md: </b> {}\n<br>\n<br>\n<b>From b.md: </b> {}\n<br>",
    "[Chunk 1]\nSource file: a.md\nPage number: 3\nContent: {}\n\n[Chunk 2]\nSource file: b.md\nPage number: 4\nContent: {}",
    "Doc 0:\nTitle: A\nContent:\n{}\n\nDoc 1:\nTitle: B\nContent:\n{}", "[来源1] 《甲》\n{}\n\n---\n\n[来源2] 《乙》\n{}",
    "<find>\n<text>{}</text>\n<source>1</source>\n</find>\n<find>\n<text>{}</text>\n<source>2</source>\n</find>",
    "Source 1 (Relevance: 0.9):\nURL: a\nContent: {}\n\nSource 2 (Relevance: 0.8):\nURL: b\nContent: {}",
    "--- 文档：甲 ---\n{}\n\n--- 文档：乙 ---\n{}", "[1]\n来源文件：a.md\n内容：{}\n\n━━━━\n\n[2]\n来源文件：b.md\n内容：{}",
    "Profile:\nAda\n\nSource 1:\n{}\n\nSource 2:\n{}", "[1] (Prices) {}\n\n[2] (Dogs) {}", "Fact 1:\n- Content: {}\n- Score: 1\n\nFact 2:\n- Content: {}\n- Score: 0",
    "Use this information from documents for your answer:\nName: A\nContents: {}\n----\nName: B\nContents: {}\n----\n\nInclude links.",
]  # fmt: skip
"""Layouts of passages that have paragraphs of their own."""


@pytest.mark.parametrize("layout", OF_PARAGRAPHS)
def test_a_repeated_beginning_divides_passages_of_several_paragraphs(layout):
    shown = divided_in(layout.format(FIRST, SECOND))

    assert [item.text for item in shown.documents] == [FIRST, SECOND]
    assert shown.is_divided


@pytest.mark.parametrize("passages", WITHIN)
def test_marks_within_passages_do_not_divide_them(passages):
    shown = divided_in("\n\n".join(WITHIN[passages]))

    texts = [re.sub(r"^\[\d\] |\n\(Source: .*", "", text) for text in WITHIN[passages]]
    assert [item.text for item in shown.documents] == texts


@pytest.mark.parametrize("passages", PARAGRAPHS)
def test_blank_lines_that_are_within_passages_divide_none(passages):
    shown = divided_in(PARAGRAPHS[passages])

    assert not shown.is_divided
    assert [item.text for item in shown.documents] == [PARAGRAPHS[passages]]


@pytest.mark.parametrize(
    ("system", "user", "texts"),
    [
        (f"Answer from:\n\n[1] {ONE}\n\n[2] {TWO}", QUESTION, [ONE, TWO]),
        ("Be kind.", f"Which is the better text?\n\n[1] {ONE}\n\n[2] {TWO}", []),
    ],
)
def test_numbers_in_brackets_are_passages_where_the_question_is_apart(system, user, texts):
    shown = shown_in(("system", system), ("user", user))

    assert [item.text for item in (shown.documents if shown else ())] == texts


@pytest.mark.parametrize(
    ("before", "now", "texts"),
    [
        (f"Here are the documents:\n\n[1] {ONE}\n\n[2] {TWO}", QUESTION, [ONE, TWO]),
        (f"Here are the documents:\n\n[1] {ONE}\n\n[2] {TWO}", "Translate them, please.", []),
        (f"Documents:\n\n[1] {ONE}\n\n[2] {TWO}\n\nQuestion: Is it quick?", QUESTION, []),
    ],
)
def test_the_turn_before_may_give_documents_and_ask_nothing(before, now, texts):
    shown = shown_in(("user", before), ("assistant", "Yes?"), ("user", now))

    assert [item.text for item in (shown.documents if shown else ())] == texts


def test_questions_with_answers_are_passages_where_the_question_precedes_them():
    pairs = f"section: A\nquestion: Is it?\nanswer: {ONE}\n\nsection: B\nquestion: And it?\nanswer: {TWO}"
    text = f"QUESTION: {QUESTION}\n\nCONTEXT:\n{pairs}"

    assert asked_in([call(text)]) == QUESTION
    assert [item.text.rpartition(": ")[2] for item in shown_in(("user", text)).documents] == [ONE, TWO]


@pytest.mark.parametrize("text", NOT_SHOWN)
def test_any_other_text_shows_none(text):
    shown = shown_in(("user", NOT_SHOWN[text]))

    assert shown is None or not shown.is_divided


@pytest.mark.parametrize(
    ("said", "sent", "reply"),
    [
        ("1. What about kettle 12?\n2. Is it safe?\n3. Who made it?", ANSWER, ANSWER),
        ("Which of the two kettles do you mean?", "nothing of it", "Which of the two kettles do you mean?"),
        ("yes", ANSWER, ANSWER),
        ("It takes three minutes, or five in winter.", ANSWER, "It takes three minutes, or five in winter."),
    ],
)  # fmt: skip
def test_follow_up_questions_about_a_reply_are_not_the_answer(said, sent, reply):
    assert last_reply([call(QUESTION), call(sent, said=said, began=3)]) == reply


def test_what_an_agent_says_after_an_observation_is_the_answer():
    engine = call(
        f"Context:\n[1] {ONE}\n\nQuestion: {QUESTION}", said="Kettle 4711 boils in three minutes flat."
    )
    said = "Thought: I can answer.\nAnswer: Put it on at noon and the tea stands on the table before the guests come."
    agent = call(QUESTION, f"Observation: {engine.said}", said=said, began=3)

    assert last_reply([engine, agent]) == said


RESULTS = {
    "a place in the list and a score": (f"[Doc 1 · score 0.9] {ONE}\n[Doc 2 · score 0.8] {TWO}", [None, None]),
    "a file and a score": (f"[a.pdf | score: 0.9]\n{ONE}\n\n---\n\n[b.pdf | score: 0.8]\n{TWO}", ["a.pdf", "b.pdf"]),
    "fields of a source": (f"Source: a.md\n\nContent: {ONE}\n\nSource: b.md\n\nContent: {TWO}", ["a.md", "b.md"]),
    "bold headings": (f"Found 2 documents:\n\n**Document 1** (Source: a.pdf)\n{ONE}\n\n**Document 2** (Source: b.pdf)\n{TWO}", [None, None]),
    "bold names": (f"• **a.pdf** (page 1)\n{ONE}\n\n• **b.pdf** (page 2)\n{TWO}", ["a.pdf", "b.pdf"]),
    "dates": (f"[2024-05-01] {ONE}\n\n[2024-05-02] {TWO}", [None, None]),
}  # fmt: skip


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_a_tool_is_cut_into_documents_that_are_called_by_their_names_alone(result):
    text, ids = RESULTS[result]

    documents = cut(text, ANY_TOOL)

    assert [document.text for document in documents] == [ONE, TWO]
    assert [document.id for document in documents] == ids


@pytest.mark.parametrize(
    "text",
    ["NO_RELEVANT_POLICY_FOUND", "No relevant messages found.", "Knowledge base search error: timed out",
     "К сожалению, ничего не найдено.", "知识库中未找到相关内容。"],
)  # fmt: skip
def test_one_line_that_says_nothing_was_found_is_no_document(text):
    assert cut(text, ANY_TOOL) == ()


@pytest.mark.parametrize("ids", ["ab", "abc"])
def test_ids_take_the_passages_of_a_prompt_where_there_are_as_many(ids):
    known = [Document(None, id=one) for one in ids]
    calls = [call(f"Context:\n{ONE}\n{TWO}\n\nQuestion: {QUESTION}")]
    shown = contexts_in_prompts(calls, ANSWER, QUESTION, known)
    assert shown.is_divided is (ids == "ab")
    assert not shown.is_divided or [(one.id, one.text) for one in shown.documents] == [("a", ONE), ("b", TWO)]


@pytest.mark.parametrize(
    "instruction", ["Rewrite this question for a search:\n{}", "Is this about kettles? Say yes or no: {}"]
)
def test_the_question_of_a_later_call_is_cut_out_of_an_earlier_instruction(instruction):
    sent = instruction.format(QUESTION), f"Context:\n{ONE}\n\nQuestion: {QUESTION}"
    assert asked_in([call(text, said="x") for text in sent]) == QUESTION
